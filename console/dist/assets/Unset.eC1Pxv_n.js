import{Gn as e,Mn as t,Ot as n,Pn as r,Vn as i,Yt as a,Zn as o,ar as s,in as c,kn as l,nr as u,or as d}from"./shared.DVc2MlJm.js";import"./legacy.-Z4rixFQ.js";var f=r(`<p class="meta"> </p>`);function p(r,p){d(p,!1),c();{let s=u(()=>a(`past.unset`)),c=u(()=>a(`past.unset_text`));n(r,{icon:`history`,get title(){return i(s)},get text(){return i(c)},command:`[history]
url_file = "/run/secrets/history-url"
payloads = "failed"
keys = ["customer"]
retention = "90d"`,children:(n,r)=>{var i=f(),s=o(i,!0);e(e=>l(s,e),[()=>a(`past.unset_doc`,{file:`docs/sql.md`,command:`streamfleet sql migrate`})]),t(n,i)},$$slots:{default:!0}})}s()}export{p as t};